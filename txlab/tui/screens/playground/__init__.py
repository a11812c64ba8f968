"""Screen 9, Playground: a small network that learns points in the plane, every neuron a picture."""
