/** A command line that cannot be understood. Ends with exit code 2 and a pointer to `--help`. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}
