"""Feed-forward networks: on any labelled directed acyclic graph, in layers, and neurons that can be taken apart."""
