"""Single files: their variables, attributes and values."""

from .file import File as File
from .file import FileVariable as FileVariable
