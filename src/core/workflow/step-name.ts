import { hasControlCharacter } from '#core/control-characters'
import { ToolError } from '#core/errors'

const LONGEST_NAME = 128

/** A name is part of a key, so it must be something that can be stored and compared exactly. */
export function checkStepName(name: unknown): string {
  const isGood =
    typeof name === 'string' &&
    name !== '' &&
    name.length <= LONGEST_NAME &&
    name.isWellFormed() &&
    !hasControlCharacter(name)
  if (isGood) return name
  throw new ToolError('The workflow gave a step a name that cannot be used.', {
    developerMessage: `Write a text of 1 to ${LONGEST_NAME} characters without control characters: { step: 'send-1' }.`,
  })
}
