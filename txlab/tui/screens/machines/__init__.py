"""Machines: the cards and processes of this machine and others."""
