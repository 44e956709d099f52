import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { jsonConfigSchema } from '#config/json-config'

/**
 * `node scripts/config-schema.ts FILE` writes the JSON Schema of JSON configs, with the descriptions of
 * docs/configuration.md. The build runs it; editors use the file to complete and check configs.
 */

const PAGE = join(import.meta.dirname, '..', 'docs', 'configuration.md')
const ROW = /^\| `([a-zA-Z.]+)` +\| (.*?) +\| (.*?) +\|$/gm

const descriptions = new Map(
  [...readFileSync(PAGE, 'utf8').matchAll(ROW)].map(([, setting = '', byDefault = '', meaning = '']) => [
    setting,
    `${plain(meaning)}. Default: ${plain(byDefault)}.`,
  ]),
)
const schema = jsonConfigSchema((setting) => descriptions.get(setting))
writeFileSync(process.argv[2] ?? 'config.schema.json', `${JSON.stringify(schema, null, 1)}\n`)

/** Editors show plain text, so links and markup are removed. */
function plain(markdown: string): string {
  return markdown
    .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
    .replaceAll('`', '')
    .replaceAll('\\|', '|')
}
