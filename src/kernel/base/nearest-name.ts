/**
 * Suggestions for misspelled names, in errors about tools, options and definitions.
 * Long names are not compared, because the cost grows with the square of their length.
 */

const MAX_LENGTH = 64

/** The known name that was probably intended; `undefined` if no name is similar. */
export function nearestName(name: string, known: Iterable<string>): string | undefined {
  return misspelledName(name, known, Math.floor(simplify(name.slice(0, MAX_LENGTH)).length / 3))
}

/**
 * The known name that `name` misspells: by default at most two letters differ, ignoring case and separators. For open objects,
 * where unknown members are allowed but misspelled members are not.
 */
export function misspelledName(name: string, known: Iterable<string>, maxDistance = 2): string | undefined {
  if (name.length > MAX_LENGTH) return undefined
  const wanted = simplify(name)
  let best: string | undefined
  let bestDistance = maxDistance + 1
  for (const candidate of known) {
    if (candidate.length > MAX_LENGTH) continue
    const distance = editDistance(wanted, simplify(candidate))
    if (distance < bestDistance) {
      best = candidate
      bestDistance = distance
    }
  }
  return best
}

/** ` Did you mean "x"?`, or an empty string. */
export function didYouMean(name: string, known: Iterable<string>): string {
  const nearest = nearestName(name, known)
  return nearest === undefined ? '' : ` Did you mean "${nearest}"?`
}

/** Ignores case and word separators, which are the most common mistakes: `time_out_ms` for `timeoutMs`. */
function simplify(name: string): string {
  return name.toLowerCase().replaceAll(/[_\-. ]/g, '')
}

/** The number of letters that must be changed, added, removed or swapped with a neighbour. */
export function editDistance(left: string, right: string): number {
  let beforePrevious: readonly number[] = []
  let previous = Array.from({ length: right.length + 1 }, (_, index) => index)
  for (let row = 1; row <= left.length; row += 1) {
    const current = [row]
    for (let column = 1; column <= right.length; column += 1) {
      const replaced = at(previous, column - 1) + (left[row - 1] === right[column - 1] ? 0 : 1)
      const swapped = left[row - 1] === right[column - 2] && left[row - 2] === right[column - 1]
      const costs = [replaced, at(previous, column) + 1, at(current, column - 1) + 1]
      current.push(
        Math.min(...costs, swapped ? at(beforePrevious, column - 2) + 1 : Number.POSITIVE_INFINITY),
      )
    }
    beforePrevious = previous
    previous = current
  }
  return at(previous, right.length)
}

function at(row: readonly number[], column: number): number {
  return row[column] ?? Number.POSITIVE_INFINITY
}
