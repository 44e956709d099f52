import { join } from 'node:path'
import { defineConfig } from 'vite'

/** The server for `npm run dev:console`; by default that of `npm start`. */
const SERVER = process.env.COLLET_URL ?? 'http://127.0.0.1:4100'

export default defineConfig(({ command }) => ({
  root: import.meta.dirname,
  // Addresses of the build are relative, because the server may be below a path.
  base: command === 'build' ? './' : '/console/',
  build: {
    outDir: join(import.meta.dirname, '../dist/console'),
    emptyOutDir: true,
    // Read by the test of the console's size.
    manifest: 'manifest.json',
    license: { fileName: 'licenses.md' },
    modulePreload: { polyfill: false },
    // The content policy allows data: addresses only for images.
    assetsInlineLimit: 0,
    rolldownOptions: {
      // The console, and the pages for people without a session: the approval screen, and the check of receipts.
      input: ['index.html', 'approval.html', 'verify.html'].map((page) => join(import.meta.dirname, page)),
      // Libraries mark client code with "use client"; here all code is client code.
      onLog: (level, log, report) => {
        if (log.code !== 'MODULE_LEVEL_DIRECTIVE') report(level, log)
      },
    },
    target: 'es2023',
    reportCompressedSize: false,
    // test/console/size.test.ts limits the first load instead.
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
