"""The Formulas screen: every numbered formula, with an example whose inputs can be changed."""
