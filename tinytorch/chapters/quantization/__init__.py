"""The page on quantization: codes and their errors, the speed of their products, and whole models in fewer bits."""
