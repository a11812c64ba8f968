"""Screen 5, Words: word vectors as a map that moves while they are learnt."""
