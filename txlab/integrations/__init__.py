"""Recordings inside what people already train with: a module for each, which imports that package and no other does.

txlab.integrations.transformers.TxlabCallback(name)       a TrainerCallback
txlab.integrations.lightning.TxlabLogger(name)            a Logger; TxlabCallback() takes requests
txlab.integrations.accelerate.TxlabTracker(name)          a GeneralTracker
txlab.integrations.tensorboard.SummaryWriter(log_dir)     torch.utils.tensorboard's, which needs none of it
"""
