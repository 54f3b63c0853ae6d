"""The entry point of group torch.backends, which torch calls at the end of its own import.

It imports nothing, so it is defined whichever of torch and torchtpu is imported first.
"""


def autoload() -> None:
    """Does nothing: the import of the package, which comes before this call, registers the device."""
