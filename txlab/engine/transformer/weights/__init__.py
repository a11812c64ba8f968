"""Weights of others, from a local folder and back (MATH T1–T10 with the numbers of GPT-2, BERT and Marian):

headers            the head of a safetensors file, checked before anything is believed
folders            config.json and the files of a folder
configs            numbers with bounds
families           what a family must say; gpt2, bert, marian: what each says
generation_configs generation_config.json: how a model is to write
vocabularies       the tokenizer that lies beside the weights
loading            from a folder to a model
saving             from a model to a folder that `transformers` loads; saving_tokenizers: what lies beside it
"""

from txlab.engine.transformer.weights.loading import FAMILIES, Loaded, load_model
from txlab.engine.transformer.weights.saving import FORMS, save_model

__all__ = ["FAMILIES", "FORMS", "Loaded", "load_model", "save_model"]
