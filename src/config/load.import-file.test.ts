import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type ImportModule, importFile } from './load.ts'

describe('importFile', () => {
  let folder = ''
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'collet-'))
    writeFileSync(join(folder, 'package.json'), '{"type":"module"}')
  })
  afterEach(() => rmSync(folder, { recursive: true }))

  function file(name: string, text: string): string {
    writeFileSync(join(folder, name), text)
    return join(folder, name)
  }

  /** Node's own import: the test runner replaces the one in files that it transforms. */
  function nativeImport(): ImportModule {
    return createRequire(import.meta.url)(file('native.cjs', 'module.exports = (url) => import(url)'))
  }

  it('returns the exports of a TypeScript file', async () => {
    expect(await importFile(file('a.ts', 'export const x: number = 1'), nativeImport())).toMatchObject({
      x: 1,
    })
  })

  it('names the file, the message and the first line of the user when it throws', async () => {
    const thrower = file(
      't.ts',
      '\nfunction fail(): never { throw new Error("no database") }\nfail()\nexport {}',
    )
    await expect(importFile(thrower, nativeImport())).rejects.toThrow(
      `${thrower}: at ${thrower}:2:32: failed while loading: Error: no database`,
    )
  })

  it('explains syntax that type stripping cannot run', async () => {
    const enums = file('e.ts', 'export enum Color { Red }')
    await expect(importFile(enums, nativeImport())).rejects.toThrow('write plain objects and fields instead')
    await expect(importFile(enums, nativeImport())).rejects.toThrow(`${enums}:1`)
  })

  it('explains how to install a missing package, and names its importer', async () => {
    const importer = file('p.ts', 'import "@scope/not-there/part"')
    await expect(importFile(importer, nativeImport())).rejects.toThrow(
      `${importer}: at ${importer}: imports "@scope/not-there", which is not installed. Run: npm install @scope/not-there`,
    )
  })

  it('names the folder of this copy if Collet itself is missing, because npm does not have it', async () => {
    const importer = file('own.ts', 'import "collet"')
    await expect(importFile(importer, nativeImport())).rejects.toThrow(
      `imports "collet", which is not installed. Run: npm install ${process.cwd()}`,
    )
  })

  it('explains an import without an extension', async () => {
    await expect(importFile(file('m.ts', 'import "./gone"'), nativeImport())).rejects.toThrow(
      'Node imports "./x.ts", not "./x"',
    )
  })

  it('reports a file that throws a value that is not an Error', async () => {
    await expect(importFile(file('n.ts', 'throw null'), nativeImport())).rejects.toThrow(
      'threw something that is not an Error',
    )
  })
})
