import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { defineCommand } from '#cli/command'
import { CommandFailure } from '#cli/command-failure'
import { EXIT } from '#cli/exit-codes'
import { cleanText } from '#core/json'

export const opentoolValidate = defineCommand<'lenient'>({
  name: 'opentool validate',
  summary: 'Checks OpenTool documents and prints everything there is to say about them.',
  details: [
    'One line a finding: file, JSON Pointer, level, rule, text. Exit code 1 if any document has an error, so that CI can check.',
  ],
  positionals: [{ name: 'FILE', many: true, help: 'JSON file with an OpenTool document.' }],
  options: {
    lenient: { help: 'Forgive what a careful reader can repair: for documents of others.' },
  },
  examples: [
    'collet opentool validate opentool.json',
    'collet opentool validate --lenient --json a.json b.json',
  ],
  async run(args, { output, json, workingFolder }) {
    const { validate } = await import('#protocols/opentool/codec-document-read')
    const mode = args.flag('lenient') ? 'lenient' : 'strict'
    let isValid = true
    for (const file of args.positionals) {
      const findings = validate(await read(resolve(workingFolder, file)), { mode })
      const hasErrors = findings.some(({ level }) => level === 'error')
      isValid &&= !hasErrors
      if (json) output.json({ file, valid: !hasErrors, findings })
      else {
        for (const { path, level, rule, message } of findings) {
          output.data(cleanText(`${file}: ${path || '(document)'}: ${level} ${rule}: ${message}`))
        }
        output.note(cleanText(`${file}: ${hasErrors ? 'not valid' : 'valid'}`))
      }
    }
    return isValid ? EXIT.ok : EXIT.toolFailed
  },
})

async function read(file: string): Promise<Uint8Array> {
  try {
    return await readFile(file)
  } catch (cause) {
    throw new CommandFailure(EXIT.usage, `${file} cannot be read.`, { cause })
  }
}
