"""The learners of the glass box, one family of rules a file: the loop, the formula, its terms (MATH M2, M4–M7)."""
