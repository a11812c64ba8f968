"""Text to tokens and back (MATH K1–K3). Each file adds one idea to the one before:

tokenizer   what all of them promise
byte_level  the 256 bytes
characters  the code points of a training text
patterns    cutting text into chunks that merges never cross
training    byte pair encoding: the next merge, one at a time
merging     byte pair encoding: a chunk to tokens, by rank
byte_pairs  the tokenizer made of a pattern, merges and special tokens
fast        the same tokens for long texts
trees       how a token grew out of bytes
one_hot     tokens as an orthonormal basis
files       a tokenizer as JSON
"""
