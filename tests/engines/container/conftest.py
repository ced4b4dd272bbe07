"""The index of wheels on loopback that the tests of packages have too."""

from tests.packages.conftest import index as index
