"""Text to tokens and back (MATH K1–K3).

plain             byte pair encoding for a lecture: train, encode, decode
tokenizer         the protocol of every tokenizer; tokens as an orthonormal basis
elementary        tokenizers without merges: bytes, characters, words, numbers
bases             the two base vocabularies that merges start from
patterns          cutting text into chunks that merges never cross
byte_pairs        the tokenizer made of a base, a pattern, merges and special tokens
training          learning the merges, one at a time, and undoing them
fast              the same tokens for long texts
trees             how a token is built from its base symbols
offsets           the position of each token in a text, and how much text a token covers
added_tokens      texts that are cut out before the rest is tokenized
files             loading and saving tokenizer files: our own format, and through their own modules
                  huggingface, gpt2_files, rank_files (tiktoken); folders: the other files of a model's folder
word_pieces       WordPiece, as BERT reads text
sentence_pieces   SentencePiece, as Marian's translation models do
"""
