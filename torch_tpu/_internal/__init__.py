"""The part of the package that programs import although its name says not to."""
