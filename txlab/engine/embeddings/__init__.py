"""Word vectors: word2vec in the forms of the literature, and what vectors are good for (MATH K4–K6)."""
