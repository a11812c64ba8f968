"""Games that were played, and the forms in which other programs read and write them."""
