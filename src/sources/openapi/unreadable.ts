/** What no policy lets us read, such as a file outside its folder; permanent, unlike a failing network. */
export class Unreadable extends Error {
  override readonly name = 'Unreadable'
}
