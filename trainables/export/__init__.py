"""Models that leave a sweep: weights, program, preprocessing and card, in a folder that torch and safetensors read."""
