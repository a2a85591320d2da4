// Image thumbnails, and the reading of image files as data URIs that fit into one frame of the API.

import { isImageDataUri } from "./markdown";

const MAX_SIDE_PX = 1568;
const MAX_FRAME_CHARS = 700_000;
const MAX_UNSCALED_BYTES = 200_000;

export function ImageThumbnails({
  images,
  onRemove,
}: {
  images: string[];
  onRemove?: (index: number) => void;
}) {
  if (images.length === 0) return null;
  return (
    <div class="thumbnails">
      {images.map((uri, index) => (
        <figure key={uri}>
          <img src={uri} alt={`Picture ${index + 1}`} />
          {onRemove && (
            <button class="icon" aria-label={`Remove picture ${index + 1}`} onClick={() => onRemove(index)}>
              ✕
            </button>
          )}
        </figure>
      ))}
    </div>
  );
}

/** Read the images among some files as data URIs; `usedChars` characters of the frame are in use already. */
export async function readImages(files: Iterable<File>, usedChars: number): Promise<string[]> {
  const uris: string[] = [];
  let remainingChars = MAX_FRAME_CHARS - usedChars;
  for (const file of files) {
    if (!file.type.startsWith("image/")) continue;
    const uri = await readImage(file);
    if (uri.length > remainingChars)
      throw new Error(`There is no room for ${file.name || "this picture"} in one message.`);
    remainingChars -= uri.length;
    uris.push(uri);
  }
  return uris;
}

async function readImage(file: File): Promise<string> {
  if (file.size < MAX_UNSCALED_BYTES) {
    const uri = await readAsDataUri(file);
    if (isImageDataUri(uri)) return uri;
  }
  const bitmap = await createImageBitmap(file);
  const scale = Math.min(1, MAX_SIDE_PX / Math.max(bitmap.width, bitmap.height));
  const canvas = document.createElement("canvas");
  canvas.width = Math.round(bitmap.width * scale);
  canvas.height = Math.round(bitmap.height * scale);
  canvas.getContext("2d")?.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  return canvas.toDataURL("image/jpeg", 0.8);
}

function readAsDataUri(file: File): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(new Error(`${file.name} cannot be read.`));
    reader.readAsDataURL(file);
  });
}
