import { copyStore } from '#store/stores'

/** Copies a store and says each step; whoever started it may kill it at any. */
const [, , from = '', to = '', key = ''] = process.argv
await copyStore(from, to, {
  dataFolder: '.',
  masterKey: Buffer.from(key, 'base64'),
  onProgress: ({ rows, total }) => process.stdout.write(`${rows} ${total}\n`),
})
