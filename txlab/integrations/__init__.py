"""Recordings in other training packages: one module for each, the only one that imports it.

txlab.integrations.transformers.TxlabCallback(name)       a TrainerCallback
txlab.integrations.lightning.TxlabLogger(name)            a Logger; TxlabCallback() takes requests
txlab.integrations.accelerate.TxlabTracker(name)          a GeneralTracker
txlab.integrations.tensorboard.SummaryWriter(log_dir)     replaces torch.utils.tensorboard's, without importing it
"""
