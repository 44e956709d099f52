import { join } from 'node:path'
import { defineConfig } from 'vite'

/** Where `npm run dev:console` finds a server; `npm start` serves there. */
const SERVER = process.env.COLLET_URL ?? 'http://127.0.0.1:4100'

export default defineConfig(({ command }) => ({
  root: import.meta.dirname,
  // Built, its addresses are relative: the server may be below a path.
  base: command === 'build' ? './' : '/console/',
  build: {
    outDir: join(import.meta.dirname, '../dist/console'),
    emptyOutDir: true,
    // Read by the test of the console's size.
    manifest: 'manifest.json',
    license: { fileName: 'licenses.md' },
    modulePreload: { polyfill: false },
    // The policy of the page allows no data: addresses but for pictures, and few files are small.
    assetsInlineLimit: 0,
    rolldownOptions: {
      // The console, and the approval screen for people without a session.
      input: ['index.html', 'approval.html'].map((page) => join(import.meta.dirname, page)),
      // Libraries say "use client" for servers that render; here everything is the client.
      onLog: (level, log, say) => {
        if (log.code !== 'MODULE_LEVEL_DIRECTIVE') say(level, log)
      },
    },
    target: 'es2023',
    reportCompressedSize: false,
    // test/console/size.test.ts limits what is loaded at first, which is what counts.
    chunkSizeWarningLimit: 1000,
  },
  server: {
    host: '127.0.0.1',
    proxy: {
      '^/console/(session|sign-in)': SERVER,
      '^/(?!console)': SERVER,
    },
  },
}))
