"""The capstone: the whole method on one model, from the plain GPT to the fastest one that holds its accuracy."""
