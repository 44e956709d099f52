import { randomBytes } from 'node:crypto'
import { defineCommand } from '#cli/command'
import { EXIT } from '#cli/exit-codes'

const KEY_BYTES = 32

export const keysGenerate = defineCommand<never>({
  name: 'keys generate',
  summary: 'Prints a new random key of 32 bytes, for auth.apiKeys, auth.jwt.secret or COLLET_KEY.',
  positionals: [],
  options: {},
  examples: ['collet keys generate', 'export COLLET_KEY="$(collet keys generate)"'],
  async run(_, { output, json }) {
    // OTC-103. Base64 and not its URL form: a key that begins with "-" would read as an option.
    const key = randomBytes(KEY_BYTES).toString('base64')
    if (json) output.json({ key })
    else output.data(key)
    return EXIT.ok
  },
})
