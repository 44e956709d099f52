import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { ownCommand } from './own-command.ts'

let folder: string

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'collet-own-command-'))
})

afterEach(() => rmSync(folder, { recursive: true }))

function make(...parts: readonly string[]): string {
  const file = join(folder, ...parts)
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, '')
  return dirname(file)
}

it('is the launcher, seen from where the person is, in a checkout', () => {
  const root = make('checkout', 'collet')
  expect(ownCommand(root, root)).toBe('./collet')
  expect(ownCommand(join(root, 'examples'), root)).toBe('../collet')
  expect(ownCommand('/elsewhere/far/from/it', root)).toBe(join(root, 'collet'))
})

it('is npx where a project has the package, also in a folder of the project and when it is linked to a checkout', () => {
  const root = make('checkout', 'collet')
  make('project', 'node_modules', '.bin', 'collet')
  for (const place of ['project', 'project/tools'])
    expect(ownCommand(join(folder, place), root)).toBe('npx collet')
})

it('is collet where that is installed for all projects', () => {
  make('bin', 'collet')
  const root = make('lib', 'node_modules', 'collet', 'package.json')
  expect(ownCommand(folder, root)).toBe('collet')
})

it('is the file itself where nothing shorter would run, and never fetches a package', () => {
  const root = make('odd place', 'package.json')
  expect(ownCommand(folder, root)).toBe(`node "${join(root, 'bin/collet.js')}"`)
})
