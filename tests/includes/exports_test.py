"""libslipring.so exports the public API and nothing else, under a versioned name.

exports_test.py LIBSLIPRING.so
"""

import re
import subprocess
import sys
import unittest

# Namespaces of the floors, which are no part of the API; engine::CommunicatorImpl and the like are only declared.
INTERNAL = re.compile(r"\bslipring::(base|transports|collectives|engine|tools)::")
PUBLIC = re.compile(r"^(?:(?:typeinfo|typeinfo name|vtable) for )?slipring::|^slipring_")


def is_public(symbol):
    # The class or function that a symbol belongs to; its parameters may name what they like.
    owner = symbol.split("(")[0]
    return bool(PUBLIC.match(symbol)) and not INTERNAL.search(owner)


class Exports(unittest.TestCase):
    library = None

    def symbols(self):
        text = subprocess.run(["nm", "--dynamic", "--defined-only", "--demangle", self.library], check=True, text=True,
                              capture_output=True).stdout
        # "0000000000012340 T slipring::f()"; absolute symbols (A) are version names
        rows = [line.split(maxsplit=2) for line in text.splitlines()]
        return [row[2].split("@")[0] for row in rows if row[1] != "A"]

    def test_internal_and_third_party_names_are_not_public(self):
        for symbol in ("slipring::base::error(int)", "vtable for slipring::transports::ShmChannel", "fmt::v9::vformat()",
                       "std::vector<slipring::Status>::push_back()", "toml::parse(char const*)"):
            self.assertFalse(is_public(symbol), symbol)

    def test_only_the_api_is_exported(self):
        self.assertEqual([symbol for symbol in self.symbols() if not is_public(symbol)], [])

    def test_the_api_is_exported(self):
        symbols = self.symbols()
        for name in ("slipring::Communicator::join(", "slipring::Communicator::all_reduce(", "slipring::run_threads(",
                     "slipring::Producer::loan(", "slipring::Consumer::peek(", "typeinfo for slipring::Error",
                     "slipring::Status::to_string", "slipring_all_reduce", "slipring_last_error", "slipring::init("):
            self.assertTrue(any(symbol.startswith(name) for symbol in symbols), name)

    def test_the_soname_has_the_major_version(self):
        text = subprocess.run(["readelf", "--dynamic", "--wide", self.library], check=True, text=True,
                              capture_output=True).stdout
        self.assertRegex(text, r"SONAME.*\[libslipring\.so\.\d+\]")


if __name__ == "__main__":
    Exports.library = sys.argv.pop()
    unittest.main()
