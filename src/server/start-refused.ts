/** The settings are understood, and starting with them would be unsafe. */
export class StartRefused extends Error {
  override readonly name = 'StartRefused'
}
