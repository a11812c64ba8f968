"""One package or file per kind of learning; each binds the engine and its data to the protocol."""
