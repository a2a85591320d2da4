import { defineConfig } from "vite";

const SERVER_URL = "http://127.0.0.1:7800";

export default defineConfig({
  base: "./",
  build: {
    outDir: "../src/joey/server/web",
    emptyOutDir: true,
    target: "es2022",
    assetsInlineLimit: 0,
    modulePreload: false,
    reportCompressedSize: false,
  },
  server: { port: 7801, proxy: { "/ws": { target: SERVER_URL, ws: true } } },
});
