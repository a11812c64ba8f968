"""Pretrained weights, from a local folder and back (MATH T1–T10 with the weights of GPT-2, Llama, BERT and Marian):

safetensors          config.json and the tensors of a folder, validated before use
families             what defines a family of models; gpt2, llama, neox, bert, marian: the families
generation_configs   generation_config.json: the generation settings of a model
tokenizers           the tokenizer stored with the weights, read and written
loading, saving      from a folder to a model, and from a model to a folder that `transformers` loads
"""

from txlab.engine.transformer.weights.loading import FAMILIES, Loaded, load_model
from txlab.engine.transformer.weights.saving import FORMS, save_model

__all__ = ["FAMILIES", "FORMS", "Loaded", "load_model", "save_model"]
