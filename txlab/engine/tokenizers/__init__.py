"""Text to tokens and back (MATH K1–K3).

plain             byte pair encoding for a lecture: train, encode, decode
tokenizer         what every tokenizer promises; tokens as an orthonormal basis
elementary        bytes, characters, words, numbers: what needs no merging
bases             the two base vocabularies that merges start from
patterns          cutting text into chunks that merges never cross
byte_pairs        the tokenizer made of a base, a pattern, merges and special tokens
training          learning the merges, one at a time, and back
fast              the same tokens for long texts
trees             how a token grew out of its base
offsets           where each token of a text lies, and how much text a token holds
added_tokens      texts that are cut out before a tokenizer looks at the rest
files             a tokenizer from a file, whoever made it: our own form, and by their own modules
                  huggingface, gpt2_files, rank_files (tiktoken); folders: what a model's folder says besides
word_pieces       WordPiece, as BERT reads text
sentence_pieces   SentencePiece, as Marian's translation models do
"""
