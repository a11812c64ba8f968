"""Weights of others, from a local folder and back (MATH T1–T10 with the numbers of GPT-2, Llama, BERT and Marian):

safetensors          config.json and the tensors of a folder, checked before anything is believed
families             what a family must say; gpt2, llama, neox, bert, marian: what each says
generation_configs   generation_config.json: how a model is to write
tokenizers           the tokenizer that lies beside the weights, read and written
loading, saving      from a folder to a model, and from a model to a folder that `transformers` loads
"""

from txlab.engine.transformer.weights.loading import FAMILIES, Loaded, load_model
from txlab.engine.transformer.weights.saving import FORMS, save_model

__all__ = ["FAMILIES", "FORMS", "Loaded", "load_model", "save_model"]
