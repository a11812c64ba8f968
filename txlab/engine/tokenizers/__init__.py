"""Text to tokens and back (MATH K1–K3). Each file adds one idea to the one before:

tokenizer         what all of them promise
spelling          what a vocabulary lacks, as hexadecimal digits
byte_level        the 256 bytes
characters        the code points of a training text
words             its words, and what is between them
bases             the two base vocabularies that merges start from
patterns          cutting text into chunks that merges never cross; foreign_patterns: those that came with a file
merging           byte pair encoding: a chunk to tokens, by rank
byte_pairs        the tokenizer made of a base, a pattern, merges and special tokens
training          byte pair encoding: the next merge, one at a time, and back
fast              the same tokens for long texts
trees             how a token grew out of its base
pieces            where each token of a text lies
statistics        how much text a token holds
one_hot           tokens as an orthonormal basis
files             a tokenizer from a file, whoever made it: own_files, huggingface, rank_files, gpt2_files;
                  foreign: those that only Hugging Face's library can run
word_pieces       WordPiece, as BERT reads text
sentence_pieces   SentencePiece, as Marian's translation models do
"""
