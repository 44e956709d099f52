import { globSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { expect, it } from 'vitest'

const ROOT = resolve(import.meta.dirname, '../..')
/** Shorter parts of a message would match anywhere. */
const MIN_LENGTH = 9

function sources(): string {
  const files = globSync('src/**/*.ts', { cwd: ROOT, exclude: (name) => name.endsWith('.test.ts') })
  return files.map((file) => readFileSync(join(ROOT, file), 'utf8').replaceAll(/\\(['`])/g, '$1')).join('\n')
}

it('docs/troubleshooting.md quotes messages that exist in the code', () => {
  const text = readFileSync(join(ROOT, 'docs/troubleshooting.md'), 'utf8')
  const messages = [...text.matchAll(/^\| `([^`]+)` \|/gm)].map(([, message = '']) => message)
  expect(messages.length).toBeGreaterThan(25)
  const code = sources()
  const parts = messages.flatMap((message) => message.split('…')).filter((part) => part.length >= MIN_LENGTH)
  expect(parts.filter((part) => !code.includes(part))).toEqual([])
})
