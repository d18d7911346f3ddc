"""The framework under study: tensors, autograd, layers and training, with NumPy alone."""
