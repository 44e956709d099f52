import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { REAL_SERVICES } from '#cli/io'
import { FakeIo } from './fake-io.ts'

/** Wrong inputs, each with the required parts of its answer: the problem and the next step. */

let folder: string

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'collet-messages-'))
  writeFileSync(join(folder, 'afile'), '')
  const auth = { apiKeys: [{ id: 'ci', key: 'short' }] }
  writeFileSync(join(folder, 'collet.config.json'), JSON.stringify({ store: 'sqlite:collet.db', auth }))
})

afterEach(() => rmSync(folder, { recursive: true }))

it.each<[argv: readonly string[], says: RegExp, never: RegExp]>([
  [['init', 'afile/x'], /A part of that path is a file, not a folder\. Choose another path\./, /--store/],
  [
    ['keys', 'create', 'a', '--expires', 'tomorrow'],
    /12h or 90d, or a time .* such as 2027-01-31T00:00:00Z; got "tomorrow"/,
    /^$/,
  ],
  [
    ['call', 'Demo.Add', '{}', '--url', 'http://127.0.0.1:9'],
    /Address: http:\/\/127\.0\.0\.1:9 \(from --url\)/,
    /Asked/,
  ],
  [['tools', 'show', 'Nope'], /There is no tool "Nope" here\. "collet tools"/, /^$/],
  [
    ['backup', '/nonexistent/x.db'],
    /There is no folder \/nonexistent\. Create it, or name a file elsewhere\./,
    /ENOENT/,
  ],
  [['dev', '--check'], /! The API key of "ci" has only 5 bytes.*\n0 tools, 1 warning\./s, /nothing wrong/],
])('%j is answered with the problem and the next step', async (argv, says, never) => {
  const io = new FakeIo(REAL_SERVICES, { workingFolder: folder })
  await io.run(...argv)
  expect(io.stderr).toMatch(says)
  expect(io.stderr).not.toMatch(never)
})
