"""Instructions by which a model can write RTFS."""

from __future__ import annotations

from typing import Final

PROMPT: Final = """\
## RTFS

Write a program in RTFS, a small pure Lisp. It touches nothing but its inputs and tools, prints nothing, and changes \
nothing; the last expression's value is the answer. Inputs are names; the keys of their objects are found \
by keyword. Commas are errors.

- Data: `1 2.5 "text" true false nil :key [1 2] {:a 1 "b" 2}`. Only `false` and `nil` are false.
- Names: `(def n 1)`, `(defn f [a & rest] body)`, `(fn [x] body)`, `#(* % 2)`, \
`(let [a 1 [b c] pair {:keys [d]} m] body)`
- Choice: `(if test then else)`, \
`(match v 0 "none" [a b] (+ a b) {:k x & more} x n when (> n 9) "big" _ "other")`
- Repetition: `(for [x xs] body)` gives a vector; `reduce`; a function that calls itself last. There is no `loop`.
- Errors: `(try body (catch e (.getMessage e)))`. There is no `throw`.
- Access: `(:k m)`, `(get m :k default)`, `(get-in m [:a :b] default)`, `(assoc m :k v)`
- Types, checked: `(defn f [n :int] :string (str n))`
- Tools: `(call :tool-name {:parameter value})`, arguments by name or in order.

Functions: `+ - * / mod max min abs sqrt pow = not= < > <= >= and or not str split join substring \
string-contains string-upper string-lower string-trim re-find re-seq parse-int parse-float int map filter reduce \
apply every? map-indexed group-by frequencies sort sort-by distinct reverse first rest last nth take drop concat \
conj count empty? range keys vals merge contains? nil? parse-json serialize-json`

Not in RTFS: `cond when case loop recur -> ->> quote throw set! println atom`. `and` and `or` evaluate all arguments. \
`(= 1 1.0)` is false. `(range 0 3)` is `[0 1 2]`. `(join ", " ["a" "b"])` is `"a, b"`.

```
(defn total [rows] (reduce + 0 (map (fn [r] (* (:price r) (:count r))) rows)))
(let [groups (group-by (fn [r] (:city r)) sales)]
  (map (fn [city] {:city city :total (total (get groups city))}) (sort (keys groups))))
```
"""
"""A section of at most 600 tokens for a system prompt: the language's features, its omissions, and one program."""
