is() { [ "${1:--}" != - ] && g cat-file -e "$1^{$2}" 2>/dev/null; }
diff() {
  g diff --binary --find-renames=50% --no-color --no-ext-diff --no-textconv --src-prefix="a/$below" --dst-prefix="b/$below" -U3 --inter-hunk-context=0 --diff-algorithm=myers --submodule=short --ignore-submodules=all "$@" </dev/null 2>"$own/said"
}
is_text() {
  [ -z "$(LC_ALL=C tr -d '\001-\177' <"$1" | head -c 1 | od -An -c)" ] || { command -v iconv >/dev/null 2>&1 && iconv -f UTF-8 -t UTF-8 <"$1" >/dev/null 2>&1; }
}
# What was known at the start: the lines of `$s/bases`.
recall() {
  commit=- before=- is_known=
  while read -r a b place; do
    [ "$place" != "$where" ] || { commit=$a before=$b is_known=1; }
  done <"$s/bases"
}
# What the changes are counted from: `$base`.
find_base() {
  empty=$(g hash-object -t tree /dev/null)
  if is "$before" tree && { [ "$1" = tree ] || [ "$where" != . ]; }; then
    base=$before
  elif is "$commit" commit; then
    base=$commit
    [ "$before" = - ] && [ -n "$named" ] || is "$before" tree || note "\`$where\`: of the start only the commit is known, so that changes from before the start are in the patch"
  elif is "$before" tree; then
    base=$before
  elif [ "$is_known$commit$before" = 1-- ]; then
    base=$empty
  elif [ -n "$is_known" ]; then
    base=${head:-$empty}
    note "\`$where\`: what was there at the start is not in the repository any more: the patch has ${head:+the changes since the commit }${head:-all files}"
    [ -z "$head" ] || keep_all
  elif [ -s "$s/bases" ]; then
    base=$empty
    note "\`$where\` is a repository that was made during the run: its files are in the patch, its history is not"
  else
    base=${head:-$empty}
  fi
  [ "$where" = . ] || [ "$commit" = - ] || [ "$commit" = "$head" ] || note "\`$where\` is a repository of its own, now at the commit \`$head\`: the patch has its files, and not this commit"
}
# Appends the changes of a work tree to `$s/patch`. $1: `tree`, or `commit` for a patch that applies to the commit at the
# start. The further arguments are pathspecs of files that the host itself may have written: they are no part of the patch.
changes() {
  how=$1
  shift
  if is_blocked; then
    : >"$own/inside"
    note "\`$odd\` is no file: git would wait for it, and makes no patch"
    keep_all
    return
  fi
  prepare
  recall
  if [ -s "$s/bases" ] && [ -z "$is_known" ] && [ "$(weight)" -gt 5120 ]; then
    : >"$own/inside"
    note "\`$where\` is a repository of its own with more than 5 MB of files, which are left out"
    return
  fi
  take
  echo "$where" >>"$s/seen"
  if [ -z "$tree" ]; then
    archive "$(tail -n 1 "$own/said")"
    return
  fi
  find_base "$how"
  if [ $# -gt 0 ]; then
    excluded=$(g -c core.quotePath=false grep --cached --full-name --no-color -l -a -F -e mswea- -- "$@" 2>/dev/null)
    set --
    while IFS= read -r file; do
      [ -z "$file" ] || set -- "$@" ":(top,exclude,literal)$file"
    done <<END
$excluded
END
  fi
  [ "$how" != commit ] || [ "$where" != . ] || only
  diff --no-renames --name-only -z --diff-filter=AMT "$base" "$tree" -- :/ "$@" | lined >"$own/names"
  if diff "$base" "$tree" -- :/ "$@" >"$own/patch" || diff --no-renames "$base" "$tree" -- :/ "$@" >"$own/patch"; then
    is_text "$own/patch" || as_text "$@"
  elif ! one_by_one "$@"; then
    archive "$(tail -n 1 "$own/said")"
    return
  fi
  cat "$own/patch" >>"$s/patch" || is_full=1
  [ "$where" != . ] || unkept
  hidden
  compare "$@"
}
# Makes `$tree` that of `$base` with the files that have changed since the start, without the other changes of the set-up.
only() {
  is "$before" tree || return
  GIT_INDEX_FILE=$own/only
  export GIT_INDEX_FILE
  g read-tree "$base" && g diff-tree -r --raw --no-abbrev --no-renames "$before" "$tree" |
    sed "s/^:[0-7]* \([0-7]*\) [0-9a-f]* \([0-9a-f]*\) [A-Z][0-9]*$tab/\1 \2$tab/" | g update-index --index-info &&
    tree=$(g write-tree --missing-ok)
  unset GIT_INDEX_FILE
} 2>/dev/null
# A patch is kept as text: that of a file that is not UTF-8 becomes a binary one.
as_text() {
  diff --no-renames "$base" "$tree" -- :/ "$@" >"$own/text"
  # The numbers of the files.
  LC_ALL=C tr '\000' '\377' <"$own/text" | LC_ALL=C awk '
    /^diff --git / { n++ }
    /[\200-\377]/ {
      gsub(/[\302-\337][\200-\277]|\340[\240-\277][\200-\277]|[\341-\354\356\357][\200-\277][\200-\277]|\355[\200-\237][\200-\277]/, "")
      gsub(/\360[\220-\277][\200-\277][\200-\277]|[\361-\363][\200-\277][\200-\277][\200-\277]|\364[\200-\217][\200-\277][\200-\277]/, "")
      if (/[\200-\377]/) print n
    }' | uniq >"$own/binary"
  pick 0 >"$own/patch"
  as_binary :/ "$@" >"$own/text"
  pick 1 >>"$own/patch"
}
# The patch of all files that the pathspecs name, as binary ones.
as_binary() {
  cp "$own/info/attributes" "$own/attributes" 2>/dev/null || : >"$own/attributes"
  printf '\n* -diff\n' >>"$own/info/attributes"
  diff --no-renames "$base" "$tree" -- "$@"
  cp "$own/attributes" "$own/info/attributes"
}
# The part of the patch `$own/text` with the files that are named in `$own/binary` (1), or without them (0).
pick() {
  LC_ALL=C tr '\000' '\377' <"$own/text" | LC_ALL=C awk -v list="$own/binary" -v wanted="$1" 'BEGIN { while ((getline n < list) > 0) is[n] = 1 } /^diff --git / { at++ } (at in is) == wanted'
}
# The patch of each file by itself, if there are not many: git can't make that of all.
one_by_one() {
  g diff-tree -r --no-renames --name-only -z "$base" "$tree" 2>/dev/null | lined >"$own/all"
  [ -s "$own/all" ] && [ "$(wc -l <"$own/all")" -le 500 ] || return
  : >"$own/patch"
  while IFS= read -r line; do
    name "$line"
    if diff --no-renames "$base" "$tree" -- ":(top,literal)$file" "$@" >"$own/one"; then
      is_text "$own/one" || as_binary ":(top,literal)$file" "$@" >"$own/one"
      cat "$own/one" >>"$own/patch"
    else
      why=$(tail -n 1 "$own/said")
      printf '%s\n' "$line"
    fi
  done <"$own/all" >"$own/parts"
  prefixed <"$own/parts" >>"$s/files"
  named "git can make no diff of these files ($why): they are kept as an archive, if they were not removed" "$own/parts"
}
# Names the changed files that the patch does not bring back byte for byte.
compare() {
  [ ! -s "$s/changed" ] || prefixed <"$own/names" | grep -xF -f "$s/changed" >"$own/before"
  named 'these files had changes before the run, which are in the patch' "$own/before"
  if [ -f "$own/asked" ]; then
    mv "$own/asked" "$own/info/attributes"
    zeroed <"$own/names" | g check-attr -z --stdin text eol crlf ident working-tree-encoding 2>/dev/null | lined | awk 'NR % 3 == 1 { name = $0 } NR % 3 == 0 && $0 != "unspecified" && $0 != "unset" && !seen[name]++ { print name }' >"$own/raw"
    named 'a conversion that `.gitattributes` asks for fails, so that the patch has what is on the disk of these files' "$own/raw"
    printf '\n* -text -crlf -eol -ident -working-tree-encoding\n' >>"$own/info/attributes"
  fi
  [ ! -s "$own/outside" ] || grep -xF -f "$own/outside" "$own/names" >"$own/sparse"
  named 'git was told to skip these files (a sparse checkout): the patch applies where they are checked out' "$own/sparse"
  diff --no-renames --name-only -z --diff-filter=D "$base" "$tree" -- :/ "$@" | lined | there | while IFS= read -r line; do
    name "$line"
    [ -d "$file" ] && [ ! -L "$file" ] || printf '%s\n' "$prefix$line"
  done >"$own/kept"
  named 'the patch removes these files from the repository, and they are still on the disk' "$own/kept"
  zeroed <"$own/names" | g check-attr -z --stdin filter 2>/dev/null | lined | awk 'NR % 3 == 1 { name = $0 } NR % 3 == 0 && $0 != "unspecified" && $0 != "unset" { print name }' >"$own/filtered"
  named 'these files have a filter in `.gitattributes`, which was not run: the patch has what is on the disk' "$own/filtered"
  zeroed <"$own/names" | g checkout-index -z --stdin -f -q --prefix="$own/files/" 2>/dev/null
  # A program for each file would take too long. Names that git would read in another way are compared so.
  : >"$own/plain"
  while IFS= read -r line; do
    name "$line"
    case $line in
    *"$one"* | \"* | *"$cr") [ -L "$file" ] || cmp -s "./$file" "$own/files/$file" || printf '%s\n' "$prefix$line" ;;
    *) [ -L "$file" ] || printf '%s\n' "$line" >>"$own/plain" ;;
    esac
  done <"$own/names" >"$own/differ"
  on_disk=$(g hash-object --no-filters --stdin-paths <"$own/plain" 2>/dev/null)
  brought=$({ cd "$own/files" && top=$own/files && g hash-object --no-filters --stdin-paths <"$own/plain"; } 2>/dev/null)
  if [ "$on_disk" != "$brought" ]; then
    while IFS= read -r line; do
      cmp -s "./$line" "$own/files/$line" || printf '%s\n' "$prefix$line"
    done <"$own/plain" >>"$own/differ"
  fi
  named 'a conversion that `.gitattributes` or `core.autocrlf` asks for makes the bytes of these files others when the patch is applied' "$own/differ"
}
# The files that have changed, if there can be no diff.
archive() {
  { [ -z "$tree" ] || g diff-tree -r --no-renames --name-only -z "$base" "$tree"; g ls-files -z --modified --others --exclude-standard; } 2>/dev/null |
    lined | sed '/\/$/d' | sort -u | without_large | there >"$own/changed"
  note "\`$where\`: git can make no diff ($1)"
  if [ -s "$own/changed" ]; then
    prefixed <"$own/changed" >>"$s/files"
    note "\`$where\`: the files that have changed are kept as an archive"
  else
    keep_all
  fi
}
# All files, if that is not much.
keep_all() {
  echo "$where" >>"$s/seen"
  if [ "$(find . -name .git -prune -o -type f -print 2>/dev/null | head -n 5001 | wc -l)" -gt 5000 ] || [ "$(du -sk . | cut -f 1)" -gt 51200 ]; then
    note 'there are too many files to keep all of them'
    return
  fi
  find . -name .git -prune -o \( -type f -o -type l \) -print0 | lined | sed 's,^\./,,' | prefixed >>"$s/files"
  note 'all files are kept as an archive'
}
# What the folder of a submodule has that is new, if there is no repository for it that can be read.
bare_folder() {
  set -- "./$1"
  [ ! -f "$s/then" ] || set -- "$1" -newer "$s/then"
  folder=$1
  shift
  (cd "$root" && find "$folder" -name .git -prune -o \( -type f -o -type l \) "$@" -print0) 2>/dev/null | lined | head -n 5001 >"$s/bare"
  [ -s "$s/bare" ] || return
  if [ "$(wc -l <"$s/bare")" -gt 5000 ] || [ "$(du -sk "$root/$folder" | cut -f 1)" -gt 51200 ]; then
    note "\`${folder#./}\` is a submodule without a repository, and has too many files to keep those that have changed"
  else
    cat "$s/bare" >>"$s/files"
    note "\`${folder#./}\` is a submodule without a repository: the files in it that have changed are kept as an archive"
  fi
}
# New files that git ignores only because of rules that are new since the start.
hidden() {
  [ -f "$s/then" ] || return
  # Each rule after the file that has it.
  {
    [ -z "$(find "$c/info/exclude" -newer "$s/then" 2>/dev/null)" ] || awk -v file="$own/info/exclude" '{ print file; print }' "$own/info/exclude"
    grep -e '\(^\|/\)\.gitignore$' "$own/names" | while IFS= read -r rules; do
      g cat-file blob "$base:$rules" >"$own/old" 2>/dev/null
      grep -vxF -f "$own/old" "./$rules" | while IFS= read -r rule; do printf '%s\n' "$rules" "$rule"; done
    done
  } >"$own/rules"
  [ -s "$own/rules" ] || return
  g ls-files -z --others --ignored --exclude-standard --directory 2>/dev/null | g check-ignore -z -v --stdin 2>/dev/null | lined |
    awk -v rules="$own/rules" '
      BEGIN { while ((getline file < rules) > 0 && (getline rule < rules) > 0) is[file "\n" rule] = 1 }
      NR % 4 == 1 { file = $0 } NR % 4 == 3 { rule = $0 } NR % 4 == 0 && (file "\n" rule) in is' | head -n 200 | while IFS= read -r line; do
    name "$line"
    [ -z "$(find "./$file" -prune -newer "$s/then" 2>/dev/null)" ] || printf '%s\n' "$prefix$line"
  done >"$own/hidden"
  named 'a rule for ignored files is new, so these are not in the patch' "$own/hidden"
}
# What git can't keep at all.
unkept() {
  [ -f "$s/then" ] || return
  find . -name .git -prune -o \( -type p -o -type s -o -type b -o -type c -o -type d -empty \) -newer "$s/then" -print 2>/dev/null | sed 's,^\./,,; /^\.$/d' >"$s/odd"
  g check-ignore --stdin <"$s/odd" 2>/dev/null >"$s/ignored"
  [ -s "$s/ignored" ] || echo / >"$s/ignored"
  grep -vxF -f "$s/ignored" "$s/odd" >"$s/unkept"
  named 'git keeps no empty folders and no pipes, so these are not in the patch' "$s/unkept"
}
saved() {
  cd "${root:-.}" 2>/dev/null
  while read -r a b place; do
    [ "$place" = . ] || grep -qxF "$place" "$s/seen" || printf '%s\n' "$place"
  done <"$s/bases" >"$s/gone"
  named 'these are no repositories any more: what happened to their files is not in the patch' "$s/gone"
  if [ -s "$s/files" ]; then
    while IFS= read -r line; do
      name "$line"
      case $file in */*) mkdir -p "$s/kept/${file%/*}" ;; *) mkdir -p "$s/kept" ;; esac
      cp -P "./$file" "$s/kept/$file" 2>/dev/null
    done <"$s/files"
    if tar -czf "$s/archive" -C "$s/kept" . 2>/dev/null && base64 <"$s/archive" >"$s/base64" 2>/dev/null && [ -s "$s/base64" ]; then
      echo '@mswea archive' >>"$s/notes"
      cat "$s/base64" >>"$s/notes"
    else
      named 'the archive could not be made of these files' "$s/files"
    fi
  fi
  cat "$s/notes"
  if [ -n "$is_full" ] || ! { echo x >"$s/room" && [ -s "$s/room" ]; } 2>/dev/null; then
    echo "@mswea note the temporary folder \`${TMPDIR:-/tmp}\` is full: changes may be missing"
  fi
  echo '@mswea patch'
  cat "$s/patch"
}
# Prints the changes since the last commit for a person, and the names of new files.
show() {
  if is_blocked; then
    echo "\`$odd\` is no file: git would wait for it"
    return
  fi
  prepare
  g ls-files -z --others --exclude-standard | lined | sed 's,/$,,' >"$own/new"
  g add --update --ignore-errors >/dev/null 2>&1
  no_links 2>/dev/null
  tree=$(g write-tree --missing-ok 2>/dev/null) && diff "${head:-$(g hash-object -t tree /dev/null)}" "$tree"
  [ -s "$own/links" ] || echo / >"$own/links"
  grep -vxF -f "$own/links" "$own/new" | sed 's/^/new file: /'
}
# There is no repository: if there was one at the start, it was removed.
lost() {
  [ -s "$s/bases" ] && ! grep -qxF -e '- - .' "$s/bases" || return
  note 'the repository that was there at the start is gone'
  root=$(pwd -P) where=. prefix=
  keep_all
}
