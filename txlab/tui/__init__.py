"""What a person looks at: the app, its screens and widgets. Data comes from run directories, never a live model."""
