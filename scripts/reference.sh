#!/usr/bin/env bash
# reference.sh: the reference of the public headers as HTML, by Doxygen, in build/reference. Warnings are errors.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/packages.sh
need_packages doxygen

folder=build/reference
rm -rf "$folder"
mkdir -p "$folder"
version=$(sed -nE 's/^#define LS_VERSION +"(.*)"/\1/p' include/lockstep/version.h)
doxygen - <<END
PROJECT_NAME = Lockstep
PROJECT_NUMBER = $version
INPUT = include/lockstep
STRIP_FROM_PATH = include
OUTPUT_DIRECTORY = "$folder"
HTML_OUTPUT = .
INPUT_FILTER = "awk -f scripts/reference.awk"
OPTIMIZE_OUTPUT_FOR_C = YES
EXTRACT_ALL = YES
JAVADOC_AUTOBRIEF = YES
MARKDOWN_SUPPORT = NO
MACRO_EXPANSION = YES
EXPAND_ONLY_PREDEF = YES
PREDEFINED = LS_API= LS_BEGIN_DECLARATIONS= LS_END_DECLARATIONS= "LS_PRINTF(a,b)=" "LS_RESERVED(n)=uint64_t reserved[n]"
EXCLUDE_SYMBOLS = reserved
SORT_MEMBER_DOCS = NO
GENERATE_LATEX = NO
HAVE_DOT = NO
QUIET = YES
WARN_AS_ERROR = FAIL_ON_WARNINGS
END
[ -s "$folder/index.html" ] || { echo "there is no main page"; exit 1; }
grep -q 'href="[^"]*ls__sgd__config' "$folder/optim_8h.html" || { echo "the page of optim.h does not link ls_sgd_config"; exit 1; }
echo "the reference is $folder/index.html"
