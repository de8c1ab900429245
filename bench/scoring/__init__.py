"""What scores cost, beside the published score, the forward passes and a device."""
