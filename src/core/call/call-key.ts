import { fault } from '#core/errors'

const LONGEST_KEY = 256

/** Refuses keys that cannot be stored and compared exactly (rule 4, T-24). */
export function checkCallKey(key: string): string {
  const length = key.length <= LONGEST_KEY ? key.length : [...key.slice(0, 2 * LONGEST_KEY + 1)].length
  if (length === 0 || length > LONGEST_KEY) {
    throw fault('request_invalid', `A call id must have 1 to ${LONGEST_KEY} characters.`)
  }
  if (hasControlCharacter(key) || !key.isWellFormed()) {
    throw fault('request_invalid', 'A call id must not contain control characters or lone surrogates.')
  }
  return key
}

function hasControlCharacter(text: string): boolean {
  for (let index = 0; index < text.length; index += 1) {
    const unit = text.charCodeAt(index)
    if (unit < 0x20 || (unit >= 0x7f && unit <= 0x9f)) return true
  }
  return false
}
