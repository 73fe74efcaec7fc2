# reference.awk: a public header with its comments as Doxygen's (scripts/reference.sh). A comment that follows code on its line belongs to
# that code, one before a blank line to the file, another one to the declaration after it. That of lockstep.h is the main page.
function escape(text) {
  gsub(/[\\@&<>#%"$]/, "\\\\&", text)
  return text
}
# The start of a comment that belongs to the file.
function of_file() {
  is_page = i == 1 && FILENAME ~ /lockstep\/lockstep\.h$/
  return is_page ? "/** @mainpage\n@verbatim\n" : "/** @file\n * @par\n *"
}
{ lines[NR] = $0 }
END {
  for (i = 1; i <= NR; i++) {
    line = lines[i]
    out = ""
    while (line != "") {
      at = index(line, inside ? "*/" : "/*")
      text = at ? substr(line, 1, at - 1) : line
      if (inside && is_page) sub(/^ \* ?/, "", text)
      else if (inside) text = escape(text)
      out = out text
      line = at ? substr(line, at + 2) : ""
      if (!at) continue
      if (inside) {
        out = out (is_page ? "\n@endverbatim\n" : "") "*/"
        is_page = 0
      } else {
        for (end = i; end < NR && index(lines[end], "*/") == 0; end++) continue
        sub(/^ -+ /, " ", line) # "---- Title ----"
        sub(/ -+ *\*\/$/, " */", line)
        sub(/ -+$/, "", line)
        out = out (text == "" && (i == 1 || lines[end + 1] == "") ? of_file() : text ~ /[^ ]/ ? "/**<" : "/**")
      }
      inside = !inside
    }
    print out
  }
}
