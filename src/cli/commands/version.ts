import { readFile } from 'node:fs/promises'
import { z } from 'zod'
import { defineCommand } from '#cli/command'
import { EXIT } from '#cli/exit-codes'

const PACKAGE_FILE = new URL('../../../package.json', import.meta.url)

export const version = defineCommand<never>({
  name: 'version',
  summary: 'Prints the versions of Collet and Node.',
  positionals: [],
  options: {},
  examples: ['collet version', 'collet --version'],
  async run(_, { output, json }) {
    const { version: collet } = z
      .object({ version: z.string() })
      .parse(JSON.parse(await readFile(PACKAGE_FILE, 'utf8')))
    if (json) output.json({ collet, node: process.versions.node })
    else output.data(`collet ${collet} (Node ${process.versions.node})`)
    return EXIT.ok
  },
})
