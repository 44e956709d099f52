import { readFileSync } from 'node:fs'

/** This package's version, read once. */
export const VERSION: string = readVersion()

function readVersion(): string {
  const manifest: { readonly version: string } = JSON.parse(
    readFileSync(new URL('../../package.json', import.meta.url), 'utf8'),
  )
  return manifest.version
}
