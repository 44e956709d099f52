import type { Services } from './services.ts'

/** The rooms of this package. */
export const REAL_SERVICES: Services = {
  async startServer(settings, options) {
    const { startServer } = await import('#server/start-server')
    return await startServer(settings, options)
  },
  async startStdio(settings, options) {
    const { startStdio } = await import('#server/start-stdio')
    return await startStdio(settings, options)
  },
  async openStore({ url, dataFolder, masterKey }) {
    const { openStore } = await import('#server/services')
    return await openStore(url, { dataFolder, masterKey, mode: 'operator' })
  },
  async checkWritable({ url, dataFolder, masterKey }) {
    const { openSqlite } = await import('#server/services')
    const store = openSqlite(url, { dataFolder, masterKey, mode: 'operator' })
    try {
      store.checkWritable()
    } finally {
      await store.close()
    }
  },
  async backUp({ url }, file) {
    const { backUpStore } = await import('#server/services')
    backUpStore(url, file)
  },
  async verifyJournal({ url, dataFolder, masterKey }, kept) {
    const { openSqlite } = await import('#server/services')
    const store = openSqlite(url, { dataFolder, masterKey, mode: 'operator' })
    try {
      const plain = store.verify()
      return plain.ok ? (kept.map((head) => store.verify(head)).find(({ ok }) => !ok) ?? plain) : plain
    } finally {
      await store.close()
    }
  },
  async connect(url, options) {
    const { connect } = await import('#client/index')
    return connect(url, options)
  },
  fetch: (...request) => fetch(...request),
}
